-- The highest bid of each auction, NULL where nobody has bid.
SELECT a.id AS auction_id, a.item_name AS auction_item_name, b.max_price AS current_highest_bid
FROM auction AS a LEFT OUTER JOIN (
  SELECT auction, max(price) AS max_price FROM bid GROUP BY auction) AS b
ON a.id = b.auction
