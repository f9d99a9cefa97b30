// Redlock: a lock, its extension, and who is refused meanwhile.
const Redis = require('ioredis');
const Redlock = require('redlock');

async function main() {
  const client = new Redis(process.argv[2]);
  const locks = new Redlock([client], { retryCount: 20, retryDelay: 20 });
  const impatient = new Redlock([client], { retryCount: 0 });
  const lock = await locks.lock('door', 5000);
  const refused = await impatient.lock('door', 100).then(() => false, () => true);
  const extended = await lock.extend(5000);
  await extended.unlock();
  const second = await impatient.lock('door', 1000);
  await second.unlock();
  console.log(JSON.stringify({ refused, extended: true, free: !(await client.exists('door')) }));
  process.exit(0);
}
main().catch(error => { console.error(error); process.exit(1); });
