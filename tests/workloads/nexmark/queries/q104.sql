-- Auctions that do not have fewer than 20 bids.
SELECT a.id AS auction_id, a.item_name AS auction_item_name FROM auction AS a
WHERE a.id NOT IN (SELECT auction FROM bid GROUP BY auction HAVING count(*) < 20)
