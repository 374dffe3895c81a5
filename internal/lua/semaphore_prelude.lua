-- Returns the ids of a holder's permits, given the last one. An id has 16 bytes, as Redisson's have: 14 by which it is the holder's, and
-- 2 that count the permits.
local function idsOf(last)
  local ids, high, low = {}, string.byte(last, 15, 16)
  for i = 0, high * 256 + low do
    ids[i + 1] = string.sub(last, 1, 14) .. string.char(math.floor(i / 256), i % 256)
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

-- Returns how many permits a waiter of the line wants.
local function wanted(member)
  return tonumber(string.match(member, ':%d+:(%d+)|') or 1)
end

-- Returns whether a waiter that wants more permits than are free stops those behind it: one that is reached, and has asked in the
-- last 10 s, or since this was first looked at. The first ones of the line ask every 3 s.
local function stops(line, member, publish, base, ms)
  local mark = WaiterMark .. member
  local at = tonumber(redis.call('ZSCORE', line, mark) or nil) or 0
  local age = ms - (at - StopScore)
  if at > 0 and at < AwaitedScore and age >= 0 then
    return age < 10000
  end
  local reached = hears(publish, beside(base, string.match(member, '^(.-):')))
  if reached then
    redis.call('ZADD', line, string.format('%.0f', StopScore + ms), mark)
  end
  return reached
end

-- Tells the first waiters of the line to ask, as many of them as the free permits are enough for. For 3 s the permits are kept for
-- those that were told. A waiter that has not asked by then loses its place, and so does one that no message reaches for 3 s.
--
-- While a waiter that lives wants more permits than are free, those behind it get none, unless it wants more than total, which is
-- all that the semaphore has. Where total is nil because nobody knows it, they do.
--
-- asker is the member of the caller, who needs no message. It may have no place yet. A client has one waiter in the line.
-- So if the asker waits, any other waiter of its client has left, and is passed over.
--
-- Returns whether enough permits are left for the asker, and for how many ms at most permits are kept for those before it. The
-- user must have the right to remove waiters.
local function tellFirst(line, free, total, publish, base, now, asker, waiting)
  local ms, place, size, told, mine = math.floor(now / 1000), 0, 2, false, false
  local client = waiting and string.match(asker, '^(.-):')
  local rest, over = ToldFor, false
  while not over do
    local batch = redis.call('ZRANGE', line, place, place + size - 1)
    for _, member in ipairs(batch) do
      if marks(member) then
        if place == 0 then
          redis.call('DEL', line)
        end
        batch = {}
        break
      end
      local wants = wanted(member)
      if wants > free then
        if free <= 0 or wants <= (total or 0) and (member == asker or stops(line, member, publish, base, ms)) then
          over = true
          break
        end
        place = place + 1
        if member == asker then
          asker = nil
        end
      elseif member == asker then
        mine, asker, client, free, place = true, nil, nil, free - wants, place + 1
      else
        local mark, its = WaiterMark .. member, string.match(member, '^(.-):')
        local at = tonumber(redis.call('ZSCORE', line, mark) or nil) or 0
        local asked = at >= AwaitedScore and at < UnreachedScore
        local age = ms - (asked and at - AwaitedScore or at - UnreachedScore)
        local fresh = at < AwaitedScore or age < 0
        if its == client then
          place = place + 1
        elseif asked and not fresh and age < ToldFor then
          free, place, rest = free - wants, place + 1, math.min(rest, ToldFor - age)
        elseif asked and not fresh then
          redis.call('ZREM', line, member, mark)
        elseif deliver(publish, beside(base, its), MessageAsk) then
          redis.call('ZADD', line, string.format('%.0f', AwaitedScore + ms), mark)
          free, place, told = free - wants, place + 1, true
        elseif not fresh and age >= ToldFor then
          redis.call('ZREM', line, member, mark)
        else
          if fresh then
            redis.call('ZADD', line, string.format('%.0f', UnreachedScore + ms), mark)
          end
          place = place + 1
        end
      end
    end
    if #batch < size then
      break
    end
    size = 100
  end
  if asker and not over then
    mine = free >= wanted(asker)
  end
  if told then
    forewarn(line, place, publish, base, ToldFor, now)
  end
  return mine, rest
end

-- Removes a holder from the line, if it stood there, and tells the waiters about free permits: the first ones in the line, and, if
-- any were given back, those that know of no line. value is how many are free then; nil means that none was given back.
-- leases is nil for a plain semaphore. A release must not fail for lack of a right to that. Returns how many listen that know of no
-- line, and at least 1 if nobody can say.
local function leave(semaphore, line, leases, holder, standing, value, publish, base)
  local others, watchers = 1, 0
  local able = pcall(function()
    if standing ~= '' then
      forget(line, holder .. '|' .. standing)
    else
      mayRemove(line)
    end
    local free = value or tonumber(redis.call('GET', semaphore) or nil) or 0
    if free > 0 then
      tellFirst(line, free, leases and free + redis.call('ZCARD', leases), publish, base, microseconds())
    end
    others, watchers = listeners(publish, base)
  end)
  if value and value > 0 and (others > 0 or not able) then
    if able and watchers > 0 then
      announce(publish, beside(base, TwinName), MessageOwn) -- the message that follows is no reason to pump
    end
    announceValue(publish, base, value)
  end
  return able and others or 1
end

-- Takes the next holder of permits that stayed within a process out of the line, if it stood there: what was kept for it is for the
-- others now. value is how many permits are free. Returns the reply of a hand-over, which says who else waits.
local function makeWay(semaphore, line, leases, holder, value, publish, base)
  local others, stand = leave(semaphore, line, leases, holder, '0', nil, publish, base), false
  local client = string.match(holder, '^(.-):')
  for _, member in ipairs(redis.call('ZRANGE', line, 0, 1)) do
    stand = stand or not marks(member) and string.match(member, '^(.-):') ~= client
  end
  return value + (stand and OthersStand or 0) + (others > 0 and OthersListen or 0)
end

-- Tells those that wait that permits were given back by nobody who stands in the line.
local function tell(semaphore, line, leases, value, publish, base)
  if line and redis.pcall('EXISTS', line) == 1 then
    leave(semaphore, line, leases, '', '', value, publish, base)
  else
    announceValue(publish, base, value)
  end
end

-- Returns an error if another semaphore has the same leases, or else nil. By Redisson's rule the semaphores x and {x} do. A lease does
-- not tell whose it is, so each would take back the other's permits. Whoever is there first stays, and the other is not set up.
local function rival(semaphore)
  local inside = string.match(semaphore, '^{([^{]*)}$')
  local other = inside or not string.find(semaphore, '{', 1, true) and '{' .. semaphore .. '}'
  local count = other and redis.pcall('GET', other)
  if type(count) == 'string' and string.match(count, '^%-?%d+$') then
    return redis.error_reply('ERR the name ' .. (inside and 'without' or 'in') .. ' braces has a count, and both would have the same leases')
  end
end
