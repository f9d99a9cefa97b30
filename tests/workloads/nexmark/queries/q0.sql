-- Pass through: bids as they come.
SELECT auction, bidder, price, date_time, extra FROM bid
