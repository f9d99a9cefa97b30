-- Auctions with more bids than the average; there is none while there are no bids.
SELECT a.id AS auction_id, a.item_name AS auction_item_name, count(b.auction) AS bid_count
FROM auction AS a JOIN bid AS b ON a.id = b.auction
GROUP BY a.id, a.item_name
HAVING count(b.auction) >= (SELECT try_divide(count(*), count(DISTINCT auction)) FROM bid)
