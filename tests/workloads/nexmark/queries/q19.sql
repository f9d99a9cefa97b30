-- Auction top ten: the highest bids of each auction, with their places.
SELECT * FROM (
  SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, id) AS rank_number
  FROM bid)
WHERE rank_number <= 10
