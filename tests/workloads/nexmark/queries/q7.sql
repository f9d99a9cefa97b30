-- Highest bid: of each tumbling window.
SELECT b.auction, b.price, b.bidder, b.date_time, b.extra
FROM bid AS b JOIN (
  SELECT max(price) AS maxprice, window.end AS date_time
  FROM bid GROUP BY window(date_time, '10 seconds')) AS w
ON b.price = w.maxprice
  AND b.date_time >= w.date_time - INTERVAL 10 SECONDS AND b.date_time < w.date_time
