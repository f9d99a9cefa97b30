// rate-limiter-flexible: three points, then the user is limited.
const Redis = require('ioredis');
const { RateLimiterRedis } = require('rate-limiter-flexible');

async function main() {
  const limiter = new RateLimiterRedis({
    storeClient: new Redis(process.argv[2]), points: 3, duration: 60,
  });
  const shown = [];
  for (let n = 0; n < 5; n++) {
    shown.push(await limiter.consume('user').then(
      result => result.remainingPoints,
      result => result instanceof Error ? String(result) : 'limited',
    ));
  }
  console.log(JSON.stringify(shown));
  process.exit(0);
}
main().catch(error => { console.error(error); process.exit(1); });
