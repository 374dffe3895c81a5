-- Lengthens the life of receipts of which less than half is left. Returns an error as a table.
local function keep(receipts, ttl, lifetime)
  return ttl < lifetime / 2 and redis.pcall('PEXPIRE', receipts, lifetime)
end

-- Returns whether a receipt is that of permits which are out. It is a time that never comes, and after a point how many they are,
-- if more than one. Any other one is a tombstone.
local function isOut(receipt)
  return receipt and string.sub(receipt, 1, 15) == Never
end

-- Takes permits, and writes the receipt of a number, which has a time that never comes. Returns how many permits are left, or an
-- error as a table; then the number has no receipt.
local function receive(semaphore, receipts, number, wants, ttl, lifetime)
  redis.call('HSET', receipts, number, Never .. (wants > 1 and string.format('.%.0f', wants) or ''))
  local result = keep(receipts, ttl, lifetime)
  if type(result) ~= 'table' then
    result = redis.pcall('DECRBY', semaphore, wants)
  end
  if type(result) == 'table' then
    redis.call('HDEL', receipts, number)
  end
  return result
end
