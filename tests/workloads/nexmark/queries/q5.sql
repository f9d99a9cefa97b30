-- Hot items: the auctions with the most bids in each sliding window.
WITH counts AS (
  SELECT auction, count(*) AS num, window.start AS starttime, window.end AS endtime
  FROM bid GROUP BY auction, window(date_time, '10 seconds', '2 seconds'))
SELECT auction_bids.auction, auction_bids.num
FROM counts AS auction_bids JOIN (
  SELECT max(num) AS maxn, starttime, endtime FROM counts GROUP BY starttime, endtime) AS max_bids
ON auction_bids.starttime = max_bids.starttime AND auction_bids.endtime = max_bids.endtime
  AND auction_bids.num >= max_bids.maxn
