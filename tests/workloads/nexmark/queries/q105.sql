-- The 1,000 auctions with the most bids.
SELECT a.id AS auction_id, a.item_name AS auction_item_name, count(b.auction) AS bid_count
FROM auction AS a INNER JOIN bid AS b ON a.id = b.auction
GROUP BY a.id, a.item_name
ORDER BY bid_count DESC LIMIT 1000
