-- Last bid: of each bidder for each auction.
SELECT auction, bidder, price, channel, url, date_time, extra
FROM (
  SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC, id) AS place
  FROM bid)
WHERE place <= 1
