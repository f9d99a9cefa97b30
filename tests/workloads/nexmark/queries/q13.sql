-- Bounded side input join: bids enriched from a small table.
SELECT b.auction, b.bidder, b.price, b.date_time, s.value
FROM bid AS b JOIN side_input AS s ON b.auction % 10000 = s.key
