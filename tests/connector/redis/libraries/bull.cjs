// Bull: jobs, one of them delayed, one that is tried again, one with a priority.
const Bull = require('bull');

async function main() {
  const queue = new Bull('mail', process.argv[2]);
  const done = [];
  queue.process(async job => {
    if (job.data.fails && job.attemptsMade === 0) throw new Error('once');
    done.push(job.data.n);
    return job.data.n * 2;
  });
  await queue.add({ n: 1 });
  const delayed = await queue.add({ n: 2 }, { delay: 200 });
  const others = [
    await queue.add({ n: 3, fails: true }, { attempts: 2 }),
    await queue.add({ n: 4 }, { priority: 3 }),
  ];
  const result = await delayed.finished();
  await Promise.all(others.map(job => job.finished()));
  const counts = await queue.getJobCounts();
  console.log(JSON.stringify({
    done: done.sort(), result, completed: counts.completed,
    left: counts.waiting + counts.active + counts.failed + counts.delayed,
  }));
  process.exit(0);
}
main().catch(error => { console.error(error); process.exit(1); });
