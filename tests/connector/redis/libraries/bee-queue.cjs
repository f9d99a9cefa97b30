// Bee-Queue: a job, and a delayed one.
const BeeQueue = require('bee-queue');

async function main() {
  const queue = new BeeQueue('sums', { redis: process.argv[2], activateDelayedJobs: true });
  queue.process(async job => job.data.x + job.data.y);
  const results = [];
  for (const delay of [0, 100]) {
    const job = queue.createJob({ x: 2, y: 3 + delay }).retries(1);
    if (delay) job.delayUntil(Date.now() + delay);
    const result = new Promise(resolve => job.on('succeeded', resolve));
    await job.save();
    results.push(await result);
  }
  console.log(JSON.stringify(results));
  process.exit(0);
}
main().catch(error => { console.error(error); process.exit(1); });
