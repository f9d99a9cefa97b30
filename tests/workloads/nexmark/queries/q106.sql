-- The lowest of the winning prices.
SELECT min(final) AS min_final FROM (
  SELECT a.id, max(b.price) AS final
  FROM auction AS a, bid AS b
  WHERE a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
  GROUP BY a.id)
