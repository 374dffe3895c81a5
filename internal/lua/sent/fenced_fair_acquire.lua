-- b2499a864d8f5698c05722b96f32b49f2c6f0425 fenced_fair_acquire
-- Generated from ../fair_acquire.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Takes the lock if nobody holds it and nobody waits ahead. Otherwise queues, or renews its place in the queue. A repeated call
-- by the holder returns the same and counts nothing.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] queue      list of waiters, the first one first
-- KEYS[3] deadlines  zset: waiter -> Unix ms from which Redisson counts it as dead
-- KEYS[4] seats      hash: waiter -> number|ms of the lease that a script may give to it, and |t if it needs a token
-- KEYS[5] token      the latest token, or else the tombstones
-- KEYS[6] tombstones hash: number -> Unix ms; only if there is a token
-- ARGV[1] holder
-- ARGV[2] lease      ms
-- ARGV[3] number     of the holder
-- ARGV[4] channel    prefix; each waiter listens on a channel of its own
-- ARGV[5] publish    PUBLISH; SPUBLISH if the cluster's pub/sub is sharded, or NODE if it is not
-- ARGV[6] wait       ms that a waiter may be silent; negative means that the caller does not queue
-- ARGV[7] seat       under which it queues; another waiter of its process may have had it before. Absent, as are the following,
--                    if it does not queue
-- ARGV[8] term       ms of the lease that a script may give to it while it waits; 0 means that it is woken instead
-- ARGV[9] again      1 if it has been in the queue, from which it may have been removed; else 0
-- returns the token or 0 when acquired; -1 when the number has a tombstone or its seat; when refused {-1 minus the ms until
-- another attempt may succeed, Unix us, 2 if nobody listens to the channel of its seat here, 4 if somebody does, and 0 if that was
-- not looked up, and 16 more if it asked again and was not in the queue any more, 0 if it queues or else -1}
-- keeps rules A.1, A.3, A.4, A.7, F.1, F.2, H, M.3, R.1, R.2, R.4, R.5, S.4, S.7, S.12, T.3
-- with tokens for fenced fair

local function raise(key)
  local time = redis.call('TIME')
  local token = redis.call('INCR', key)
  local now = time[1] * 1000000 + time[2]
  if token < now then
    token = now
    redis.call('SET', key, string.format('%.0f', token))
  end
  return token
end
local function fraction(waiter, state)
  return (tonumber(string.sub(redis.sha1hex(waiter), 1, 8), 16) % 341 * 2 + 682 * state + 1) / 2048
end
local token, tombstones = KEYS[6] and KEYS[5], KEYS[6] or KEYS[5]
local found = redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[2], tombstones, tombstones, tombstones, tombstones)
if found >= 4 then
  if redis.call('HEXISTS', tombstones, ARGV[3]) == 1 then
    return -1
  end
  found = found - 4
end
if found == 0 then
  local drawn = token and raise(token) or 0
  redis.call('HSET', KEYS[1], ARGV[1], 1)
  local leased = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
  if type(leased) == 'table' and leased.err then
    redis.call('DEL', KEYS[1])
    return leased
  end
  return drawn
end
local locked, queue = found ~= 2, found ~= 1
local holds = locked and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
local wait = tonumber(ARGV[6])
if locked and not holds and wait > 0 and ARGV[9] == '0' and tonumber(ARGV[3]) % 64 ~= 0
  and (ARGV[5] == 'PUBLISH' or ARGV[5] == 'SPUBLISH') then
  local hint, ahead = -1, 0
  if not queue then
    hint = redis.call('PTTL', KEYS[1])
  else
    local head, braced = redis.call('LINDEX', KEYS[2], 0), string.byte(ARGV[7], -1) == 125
    if string.find(head, ':-', 1, true) and (string.byte(head, -1) == 125) == braced then
      local last = redis.call('LINDEX', KEYS[2], -1)
      local score = redis.call('ZSCORE', KEYS[3], last)
      if score and string.find(last, ':-', 1, true) and (string.byte(last, -1) == 125) == braced then
        if redis.call('PUBSUB', ARGV[5] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', ARGV[4] .. ':' .. head)[2] > 0 then
          hint, ahead = wait, tonumber(score)
        end
      end
    end
  end
  if hint >= 0 then
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local deadline = math.max(now + wait, math.floor(ahead)) + fraction(ARGV[7], 0)
    if redis.pcall('ZADD', KEYS[3], 'NX', string.format('%.17g', deadline), ARGV[7]) == 1 then
      redis.call('RPUSH', KEYS[2], ARGV[7])
      redis.call('HSET', KEYS[4], ARGV[7], ARGV[3] .. '|' .. ARGV[8] .. (token and '|t' or ''))
      if math.floor((ahead - wait) / 10000) ~= math.floor(now / 10000) then
        redis.call('PEXPIRE', KEYS[4], math.max(wait, 300000) + 10000)
      end
      return {-1 - hint, time[1] * 1000000 + time[2], 0, 0}
    end
  end
end
local function extend(key, lease)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), tonumber(lease)))
end
local function create(lock, lease, holder, mode)
  mode = mode or string.sub(holder, -6) == ':write' and 'write'
  if mode then
    redis.call('HSET', lock, 'mode', mode, holder, '1')
  else
    redis.call('HSET', lock, holder, '1')
  end
  local leased = redis.pcall('PEXPIRE', lock, lease)
  if type(leased) == 'table' and leased.err then
    redis.call('DEL', lock)
    return leased
  end
end
local function isLock(key, client)
  local all = redis.call('HLEN', key) <= 1000 and redis.call('HGETALL', key) or {}
  for i = 1, #all, 2 do
    local holder = string.gsub(all[i], ':' .. string.rep('%x', 32) .. '$', '')
    local ending = string.match(all[i + 1], '^%d+$') and string.match(holder, '^' .. client .. ':%-?%d+(.*)$')
    if all[i] == 'mode' then
      ending = (all[i + 1] == 'read' or all[i + 1] == 'write') and ''
    end
    if ending ~= '' and ending ~= ':write' then
      return false
    end
  end
  return #all > 0
end
local function refused(key, lease)
  local ttl = redis.call('PTTL', key)
  if ttl < 0 then
    if isLock(key, redis.call('HEXISTS', key, 'mode') == 1 and '.+' or '%x+%-%x+%-%x+%-%x+%-%x+') then
      ttl = math.max(30000, tonumber(lease))
      redis.call('PEXPIRE', key, ttl)
    else
      ttl = 86400000
    end
  end
  return -1 - ttl
end
local function hearers(publish, channel)
  return redis.call('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel)[2]
end
local function announce(publish, channel, message)
  return redis.call(publish, channel, message)
end
local function same(lock, key, lease)
  local token = redis.call('GET', key)
  token = token and tonumber(token) or raise(key)
  extend(lock, lease)
  return token
end
local function microseconds()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local function beside(base, what)
  return base .. ':' .. what .. (string.byte(KEYS[1]) == 123 and string.find(KEYS[1], '^{[^{]*}$') and '{}' or '')
end
local function listeners(publish, base, own)
  local counts = redis.call('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', base, beside(base, 'rlock-twin'), own or base)
  return math.max(counts[2] - counts[4], 0), counts[4], counts[6]
end
local function hand(lock, publish, channel, message)
  local able, receivers = pcall(announce, publish, channel, message)
  if able and receivers > 0 then
    return true
  end
  redis.call('DEL', lock)
  return not able and error(receivers)
end
local function hears(publish, channel)
  return hearers(publish, channel) > 0
end
local function deliver(publish, channel, message)
  return announce(publish, channel, message) > 0 and hears(publish, channel)
end
local function ours(waiter)
  return string.find(waiter, ':-', 1, true)
end
local function foreign(waiter)
  return ours(waiter) and (string.byte(waiter, -1) == 125) ~= (string.find(KEYS[1], '^{[^{]*}$') ~= nil)
end
local function first(queue, from)
  local place, size = from or 0, 1
  while true do
    local waiters = redis.call('LRANGE', queue, place, place + size - 1)
    for i, waiter in ipairs(waiters) do
      if not foreign(waiter) then
        return waiter, place + i - 1
      end
    end
    if #waiters < size then
      return false
    end
    place, size = place + size, 64
  end
end
local function stateOf(waiter, deadline)
  if not ours(waiter) then
    return nil
  end
  local state = (deadline % 1 - fraction(waiter, 0)) * 2048 / 682
  if state == 0 or state == 1 or state == 2 then
    return state
  end
end
local function date(deadlines, waiter, deadline, state)
  redis.call('ZREM', deadlines, waiter)
  redis.call('ZADD', deadlines, string.format('%.17g', math.floor(deadline) + fraction(waiter, state)), waiter)
end
local function fairLock(lock, queue, deadlines, seats, token, channel, publish)
  local micros = microseconds()
  return {
    lock = lock, queue = queue, deadlines = deadlines, seats = seats, token = token, channel = channel, publish = publish,
    micros = micros, now = math.floor(micros / 1000),
  }
end
local function sitter(seats, waiter)
  return string.match(redis.call('HGET', seats, waiter) or '', '^(%d+)|(%d+)|?(t?)$')
end
local function grantable(q, term, wants)
  return term and term ~= '0' and (wants == '' or q.token) and q.publish ~= 'NODE'
end
local function remove(q, waiter)
  redis.call('LREM', q.queue, 1, waiter)
  redis.call('ZREM', q.deadlines, waiter)
  redis.call('HDEL', q.seats, waiter)
end
local function reach(q, waiter)
  if q.publish == 'NODE' then
    announce('PUBLISH', q.channel .. ':' .. waiter, '0')
    return nil
  end
  return deliver(q.publish, q.channel .. ':' .. waiter, '0') and 1 or 0
end
local function alert(q, place, client, lease)
  for _ = 1, 16 do
    local waiter, at = first(q.queue, place)
    if not waiter or tonumber(lease) >= 3000 and ours(waiter) and string.match(waiter, '^(.*):') == client then
      return
    end
    place = at + 1
    local number, term, wants = sitter(q.seats, waiter)
    local receivers
    if grantable(q, term, wants) then
      receivers = deliver(q.publish, q.channel .. ':' .. waiter, string.format('9 %s %s', number, lease)) and 1 or 0
    else
      receivers = reach(q, waiter)
    end
    if receivers ~= 0 then
      return
    end
  end
end
local function favor(q, ends, left)
  local head, place = first(q.queue)
  local deadline = head and place >= left and not ours(head) and tonumber(redis.call('ZSCORE', q.deadlines, head) or nil)
  if deadline and deadline < ends + 300000 and not stateOf(head, deadline) then
    redis.call('ZADD', q.deadlines, string.format('%.0f', ends + 300000), head)
  end
  return head
end
local function depart(q, waiter, passed, client, lease)
  remove(q, waiter)
  favor(q, q.now + lease, passed)
  alert(q, passed, client, lease)
end
local function give(q, waiter, passed, here, number, term, drawn)
  local client = string.match(waiter, '^(.*):')
  if client ~= here and not hears(q.publish, q.channel .. ':' .. waiter) then
    return nil
  end
  local failed = create(q.lock, term, client .. ':' .. number)
  if failed then
    return nil
  end
  if client ~= here then
    local message = string.format('6 %s %.0f %s %.0f', number, q.micros, term, drawn)
    if not hand(q.lock, q.publish, q.channel .. ':' .. waiter, message) then
      return nil
    end
  end
  depart(q, waiter, passed, client, tonumber(term))
  return {tonumber(number), client == here, tonumber(term), drawn}
end
local function serve(q, asking, here)
  local now, passed, leave, size = q.now, 0, q.now, 1
  while true do
    local waiters = redis.call('LRANGE', q.queue, passed, passed + size - 1)
    for _, waiter in ipairs(waiters) do
      if waiter == asking then
        return nil, leave > now and leave or nil, true, passed
      end
      local other = foreign(waiter)
      local number, term, wants
      if not other then
        number, term, wants = sitter(q.seats, waiter)
      end
      local given, drawn = grantable(q, term, wants), 0
      if given and wants == 't' then
        given, drawn = pcall(raise, q.token)
      end
      local holder = given and give(q, waiter, passed, here, number, term, drawn)
      if holder then
        return holder, nil, false, passed
      end
      local deadline = not other and tonumber(redis.call('ZSCORE', q.deadlines, waiter) or nil)
      local state = deadline and stateOf(waiter, deadline)
      local over = not deadline or deadline <= now
      if other then
        passed = passed + 1
      elseif state == 1 and not over and deadline < now + 3001 then
        passed, leave = passed + 1, math.max(leave, math.floor(deadline) - 2950)
      elseif given then
        if state == 1 and over then
          remove(q, waiter)
        else
          date(q.deadlines, waiter, now + 3000, 1)
          passed, leave = passed + 1, math.max(leave, now + 50)
        end
      elseif over and state ~= 0 and state ~= 1 then
        remove(q, waiter)
      else
        local receivers = reach(q, waiter)
        if receivers == 0 and state then
          if state == 1 and over then
            remove(q, waiter)
          else
            date(q.deadlines, waiter, now + 3000, 1)
            passed, leave = passed + 1, math.max(leave, now + 50)
          end
        elseif receivers or not over then
          if receivers and asking and (state == 0 or state == 1) then
            deadline = now + 3000
            date(q.deadlines, waiter, deadline, 2)
          end
          return nil, deadline, false, passed
        else
          remove(q, waiter)
        end
      end
    end
    if #waiters < size then
      return nil, leave > now and leave or nil, false, passed
    end
    size = 64
  end
end
local function evict(q, asking)
  local evicted = false
  while true do
    local head = first(q.queue)
    if not head or head == asking or not evicted and ours(head) and q.publish ~= 'NODE' then
      return head
    end
    local deadline = tonumber(redis.call('ZSCORE', q.deadlines, head) or nil)
    local judged = not deadline or q.publish == 'NODE' or not stateOf(head, deadline)
    if not judged or (deadline and deadline > q.now) then
      if evicted then
        reach(q, head)
      end
      return head, judged and deadline
    end
    remove(q, head)
    evicted = true
  end
end
local function deserted(q, asking)
  for place = 0, 63 do
    local waiter = redis.call('LINDEX', q.queue, place)
    if not waiter or waiter == asking then
      return true
    elseif not ours(waiter) or not foreign(waiter) and hears(q.publish, q.channel .. ':' .. waiter) then
      return false
    end
  end
  return false
end
local function sweepSeats(q)
  local all = redis.call('HGETALL', q.seats)
  for i = 1, #all, 2 do
    if not redis.call('ZSCORE', q.deadlines, all[i]) then
      redis.call('HDEL', q.seats, all[i])
    end
  end
end
local function enqueue(q, asking, head, wait, number, rest)
  local length, own = redis.call('LLEN', q.queue), tonumber(redis.call('ZSCORE', q.deadlines, asking) or nil)
  local queued, place = own, nil
  if length ~= redis.call('ZCARD', q.deadlines) then
    place = redis.call('LPOS', q.queue, asking)
    queued = place
  end
  local deadline = q.now + wait
  if not queued then
    redis.call('RPUSH', q.queue, asking)
    place = length
  elseif head == asking then
    place = 0
  elseif own and own > q.now + wait / 3 and own <= deadline + 1 then
    place = 0
  elseif not place then
    place = redis.call('LPOS', q.queue, asking, 'MAXLEN', 256)
    deadline = place and deadline or math.max(deadline, own)
  end
  local others, after = 0, 0
  for i = (place or 0) - 1, math.max((place or 0) - 64, 0), -1 do
    local waiter = redis.call('LINDEX', q.queue, i)
    local ahead = tonumber(redis.call('ZSCORE', q.deadlines, waiter) or nil)
    if ahead and ours(waiter) then
      deadline = math.max(deadline, math.floor(ahead))
      break
    end
    others = others + 1
    if others == 1 and ahead then
      after = ahead + wait
    end
  end
  date(q.deadlines, asking, math.max(deadline + others * 300000, after), 0)
  redis.call('HSET', q.seats, asking, number .. rest)
  redis.call('PEXPIRE', q.seats, math.max(wait, 300000))
  if not queued and tonumber(number) % 64 == 0 and redis.call('HLEN', q.seats) > length + 128 then
    sweepSeats(q)
  end
  return queued
end
if holds then
  if token then
    return same(KEYS[1], token, ARGV[2])
  end
  extend(KEYS[1], ARGV[2])
  return 0
end
local q, asking = fairLock(KEYS[1], KEYS[2], KEYS[3], KEYS[4], token, ARGV[4], ARGV[5]), ARGV[7] or ''
local before, left, next = tonumber((sitter(q.seats, asking))), 0, nil
if before and before > tonumber(ARGV[3]) then
  return -1
elseif before and before < tonumber(ARGV[3]) then
  if first(KEYS[2]) == asking then
    left = math.max(redis.call('PTTL', KEYS[1]), 0)
    remove(q, asking)
    next = favor(q, q.now + left, 0)
  else
    remove(q, asking)
  end
end
local head, due
if not locked then
  local given, leave, queued, passed = serve(q, asking)
  if not given and not leave then
    local drawn = token and raise(token) or 0
    local failed = create(KEYS[1], ARGV[2], ARGV[1])
    if queued and not failed then
      depart(q, asking, passed, nil, tonumber(ARGV[2]))
    end
    return failed or drawn
  elseif given then
    head = first(KEYS[2])
  end
  due = leave
else
  head, due = evict(q, asking)
  if next and next == head then
    alert(q, 0, nil, left)
  end
end
local heard = 0
if wait > 0 and not enqueue(q, asking, head, wait, ARGV[3], '|' .. ARGV[8] .. (token and '|t' or '')) and ARGV[9] == '1' then
  heard = 16
end
local hint
if head == nil then
  hint = -1 - math.ceil(due - q.now)
elseif not head or head == asking or wait < 0 or not due and deserted(q, asking) then
  hint = refused(KEYS[1], ARGV[2])
else
  hint = due and -1 - math.floor(due - q.now) or -1 - wait
end
if wait > 0 and q.publish ~= 'NODE' then
  local _, _, hearers = listeners(q.publish, q.channel, q.channel .. ':' .. asking)
  heard = heard + (hearers == 0 and 2 or 4)
end
return {hint, q.micros, heard, wait > 0 and 0 or -1}
