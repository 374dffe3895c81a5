-- Returns the ids of a holder's permits. An id has 16 bytes, as Redisson's have: 8 of the client's id, 6 of the holder's
-- number, and 2 that count the permits.
local function idsOf(holder)
  local first, second, last, number, count = string.match(holder, '^(%x+)%-(%x+)%-%x+%-%x+%-%x*(%x%x%x%x):(%d+):?(%d*)$')
  local n = tonumber(number)
  local base = string.gsub(first .. second .. last, '%x%x', function(byte) return string.char(tonumber(byte, 16)) end)
  for power = 40, 0, -8 do
    base = base .. string.char(math.floor(n / 2 ^ power) % 256)
  end
  local ids = {}
  for i = 1, tonumber(count) or 1 do
    ids[i] = base .. string.char(math.floor((i - 1) / 256), (i - 1) % 256)
  end
  return ids
end

-- Returns the arguments by which ZADD gives permits a score.
local function scored(ids, score)
  local args = {}
  for _, id in ipairs(ids) do
    args[#args + 1] = score
    args[#args + 1] = id
  end
  return unpack(args)
end

-- Makes leases of permits last until a time at least. A permit without a lease keeps having none.
local function lengthen(leases, ids, score)
  for _, id in ipairs(ids) do
    if tonumber(redis.call('ZSCORE', leases, id)) < tonumber(score) then
      redis.call('ZADD', leases, 'XX', score, id)
    end
  end
end

-- Returns how many of these permits are out. If the key is of another type, none is.
local function out(leases, ids)
  local n = 0
  for _, id in ipairs(ids) do
    local score = redis.pcall('ZSCORE', leases, id)
    if type(score) == 'table' and not string.find(score.err, 'WRONGTYPE', 1, true) then
      return score
    end
    n = n + (type(score) == 'string' and 1 or 0)
  end
  return n
end

-- Gives back permits that were just removed from the leases. If Redis refuses that, they are out again, with leases that are
-- over, so that they are not lost. Returns how many permits are free, or the error.
local function giveBack(semaphore, leases, ids)
  local value = redis.pcall('INCRBY', semaphore, #ids)
  if type(value) == 'table' then
    redis.pcall('ZADD', leases, scored(ids, 1))
  end
  return value
end

-- Takes back the permits whose leases are over. Returns how many there were, or an error.
local function reclaim(semaphore, leases, now)
  local n, over = 0, nil
  repeat
    over = redis.call('ZRANGEBYSCORE', leases, '-inf', string.format('%.0f', now), 'LIMIT', 0, 1000)
    if over[1] then
      redis.call('ZREM', leases, unpack(over))
      local value = giveBack(semaphore, leases, over)
      if type(value) == 'table' then
        return value
      end
      n = n + #over
    end
  until #over < 1000
  return n
end

-- Hands out permits that are free and have leases already. The leases expire with the semaphore, if that does. Returns how many
-- permits are left. If Redis refuses to take them, they have no leases any more, and the result is the error.
local function take(semaphore, leases, ids)
  local left = redis.pcall('DECRBY', semaphore, #ids)
  if type(left) == 'table' then
    redis.call('ZREM', leases, unpack(ids))
    return left
  end
  local ttl = redis.call('PTTL', semaphore)
  if ttl > 0 then
    redis.call('PEXPIRE', leases, ttl)
  end
  return left
end

-- Announces how many permits are free, if any is. Redisson's listeners fail at any other number.
local function announceValue(publish, channel, value)
  if value > 0 then
    announce(publish, channel, string.format('%.0f', math.min(value, 2147483647)))
  end
end
