CREATE TABLE hits (
  WatchID BIGINT NOT NULL, JavaEnable SMALLINT, Title STRING, GoodEvent SMALLINT,
  EventTime TIMESTAMP, EventDate DATE, CounterID INT, ClientIP INT, RegionID INT, UserID BIGINT,
  CounterClass SMALLINT, OS SMALLINT, UserAgent SMALLINT, URL STRING, Referer STRING,
  IsRefresh SMALLINT, ResolutionWidth SMALLINT, ResolutionHeight SMALLINT, MobilePhone SMALLINT,
  MobilePhoneModel STRING, TraficSourceID SMALLINT, SearchEngineID SMALLINT, SearchPhrase STRING,
  AdvEngineID SMALLINT, WindowClientWidth SMALLINT, WindowClientHeight SMALLINT, IsLink SMALLINT,
  IsDownload SMALLINT, DontCountHits SMALLINT, RefererHash BIGINT, URLHash BIGINT,
  PRIMARY KEY (WatchID)
);
