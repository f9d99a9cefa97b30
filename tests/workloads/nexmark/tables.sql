CREATE TABLE person (
  id BIGINT NOT NULL, name STRING, email_address STRING, credit_card STRING, city STRING,
  state STRING, date_time TIMESTAMP, extra STRING,
  PRIMARY KEY (id)
);
CREATE TABLE auction (
  id BIGINT NOT NULL, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT,
  date_time TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING,
  PRIMARY KEY (id)
);
CREATE TABLE bid (
  id BIGINT NOT NULL, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING,
  date_time TIMESTAMP, extra STRING,
  PRIMARY KEY (id)
);
CREATE TABLE side_input (
  key BIGINT NOT NULL, value STRING,
  PRIMARY KEY (key)
);
