-- Average selling price by seller: over the last ten auctions that ended with a bid.
SELECT seller, avg(final) OVER (
    PARTITION BY seller ORDER BY date_time, id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS average
FROM (
  SELECT a.id, a.seller, b.price AS final, b.date_time,
    row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.id) AS place
  FROM auction AS a, bid AS b
  WHERE a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires)
WHERE place <= 1
