-- Returns how long a lock must last for its read holds, in ms: as long as the longest of them still runs. Zero means that there is
-- none. A hold whose key is gone is over, even if its field still exists. Redisson has one key per acquisition of a holder, rlock
-- has one for all.
--
-- Redis serves nobody else meanwhile. So this looks at 200 keys at most, and if there are more than 16 readers, only until it finds
-- a hold that runs for half of ttl, which is what is left of the lock's lease. Others may run for longer, so the result is not less
-- than ttl then. size is how many fields the lock has, with its mode. Of many readers, number selects those to look at.
local function longest(lock, size, ttl, number)
  local prefix = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
  local few, most, looks, cursor = size <= 17, 0, 0, '0'
  if ttl < 0 then
    ttl = 30000 -- somebody took its lease away
  end
  if size > 200 then
    cursor = string.format('%.0f', number % 65536 * 2654435761 % 4294967296)
  end
  repeat
    local fields
    if few then
      fields = redis.call('HGETALL', lock)
    else
      local page = redis.pcall('HSCAN', lock, cursor, 'COUNT', 16)
      if page.err then
        return ttl
      end
      cursor, fields = page[1], page[2]
    end
    for i = 1, #fields, 2 do
      for entry = 1, fields[i] ~= ModeField and math.max(tonumber(fields[i + 1]) or 0, 1) or 0 do
        if looks == 200 then
          return math.max(ttl, most)
        end
        looks = looks + 1
        local hold = prefix .. ':' .. fields[i] .. HoldSuffix .. entry
        local left = redis.pcall('PTTL', hold)
        -- While a slot moves, its old node does not answer whether a key is gone. Its new one answers only for several keys at once.
        if type(left) == 'table' or left == -2 and type(redis.pcall('EXISTS', lock, hold)) == 'table' then
          return math.max(ttl, most)
        end
        most = math.max(most, left)
        if not few and 2 * most >= ttl then
          return math.max(ttl, most)
        end
      end
    end
  until few or cursor == '0' and size <= 200
  return most
end

-- Makes a holder one of those who read a lock, which is free or has such a holder. Returns the reply of an acquire.
local function read(lock, hold, holder, lease, free)
  redis.call('SET', hold, 1, 'PX', math.max(redis.call('PTTL', hold), tonumber(lease)))
  if free then
    return create(lock, lease, holder, ReadMode) or 0
  end
  if redis.call('HEXISTS', lock, holder) == 0 then
    redis.call('HSET', lock, holder, 1)
  end
  extend(lock, lease)
  return 0
end

-- Leaves a write lock whose writer was removed to its read holds, and returns for how long. Zero means that there was none, so that
-- the lock is free.
local function leaveWrite(lock, number)
  local size = redis.call('HLEN', lock)
  local left = size > 1 and longest(lock, size, redis.call('PTTL', lock), number) or 0
  if left > 0 then
    redis.call('HSET', lock, ModeField, ReadMode)
    redis.call('PEXPIRE', lock, left) -- so a dead reader blocks writers for its own lease, not for the writer's
  else
    redis.call('DEL', lock)
  end
  return left
end

-- Announces on Redisson's channel that a lock is free, or a read-write lock whose side of that name was left. Returns how many
-- listeners received the message.
--
-- Every waiter wakes after a writer has left, because readers and writers may now try. In a Java process, a 1 wakes
-- every sleeping thread, but a thread that has subscribed and does not sleep yet misses it. A 0 wakes one thread, and is
-- kept until that thread sleeps.
local function announceFree(publish, channel, side)
  if side == WriteMode then
    announce(publish, channel, MessageWriterLeft)
  end
  return announce(publish, channel, MessageFree)
end
