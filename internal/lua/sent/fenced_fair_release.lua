-- d5d5e48a1f6e750d6fe5c88f1bec674051600f8f fenced_fair_release
-- Generated from ../fair_release.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Frees the lock, whatever its count is, or leaves its queue. Gives the lock to the first waiter that can have it.
--
-- KEYS[1] lock       hash: holder -> count
-- KEYS[2] queue      list of waiters, the first one first
-- KEYS[3] deadlines  zset: waiter -> Unix ms from which Redisson counts it as dead
-- KEYS[4] seats      hash: waiter -> number|ms of the lease that a script may give to it, and |t if it needs a token
-- KEYS[5] token      the latest token, or else the tombstones
-- KEYS[6] tombstones hash: number -> Unix ms; only if there is a token
-- ARGV[1] holder
-- ARGV[2] lifetime   ms of the number's tombstone; 0 (no tombstone) when every command with this number got a reply
-- ARGV[3] number     of the holder
-- ARGV[4] channel    prefix; each waiter listens on a channel of its own
-- ARGV[5] publish    PUBLISH; SPUBLISH if the cluster's pub/sub is sharded, or NODE if it is not
-- ARGV[6] seat       under which it may queue; empty means that it does not
-- returns 1 when freed, 0 when not held; if a waiter of this client has the lock now {1 or 0, its number, Unix us, the ms of its
-- lease, its token or 0}
-- keeps rules A.1, A.5, A.6, F.2, R.1, R.4, R.5, S.3, S.4, S.12, T.3
-- with tokens for fenced fair

local freed = redis.pcall('HDEL', KEYS[1], ARGV[1])
local left = redis.pcall('EXISTS', KEYS[1], KEYS[2])
if ARGV[2] == '0' and left == 0 then
  return freed
end
if ARGV[2] == '0' and left == 1 and freed == 1 and (ARGV[5] == 'PUBLISH' or ARGV[5] == 'SPUBLISH') then
  local waiters = redis.call('LRANGE', KEYS[2], 0, 1)
  local next, behind = waiters[1], waiters[2]
  local client = string.match(ARGV[1], '^(.*:)') or ':'
  local seats, length = client .. '-', #client + 1
  if next and string.sub(next, 1, length) == seats and (not behind or string.sub(behind, 1, length) == seats) then
    local entry = redis.pcall('HGET', KEYS[4], next)
    local number, term = string.match(type(entry) == 'string' and entry or '', '^(%d+)|(%d+)$')
    local alike = not behind or (string.byte(next, -1) == 125) == (string.byte(behind, -1) == 125)
    if number and alike and (tonumber(term) >= 3000 or not behind and term ~= '0') then
      redis.call('HSET', KEYS[1], client .. number, 1)
      redis.call('PEXPIRE', KEYS[1], term)
      if behind then
        redis.call('LREM', KEYS[2], 1, next)
        redis.call('ZREM', KEYS[3], next)
        redis.call('HDEL', KEYS[4], next)
      else
        redis.call('DEL', KEYS[2], KEYS[3], KEYS[4])
      end
      local time = redis.call('TIME')
      return {1, tonumber(number), time[1] * 1000000 + time[2], tonumber(term), 0}
    end
  end
end
local function extend(key, lease)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), tonumber(lease)))
end
local function milliseconds()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function sweep(key, number, now)
  local size = redis.pcall('HLEN', key)
  if type(size) ~= 'number' or size % 128 ~= 0 then
    return
  end
  local all
  if size <= 1024 then
    all = redis.pcall('HGETALL', key)
  else
    all = redis.pcall('HSCAN', key, string.format('%.0f', number * 2654435761 % 4294967296), 'COUNT', 300)[2] or {}
  end
  for i = 1, #all, 2 do
    if tonumber(all[i + 1]) < now then
      redis.pcall('HDEL', key, all[i])
    end
  end
end
local function abandon(key, number, memory, answer)
  memory = tonumber(memory)
  if memory == 0 then
    return
  end
  local now = milliseconds()
  redis.call('HSET', key, number, string.format('%.0f', now + memory) .. (answer or ''))
  extend(key, memory)
  sweep(key, number, now)
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
local function hearers(publish, channel)
  return redis.call('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel)[2]
end
local function announce(publish, channel, message)
  return redis.call(publish, channel, message)
end
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
local function microseconds()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local function failure(why)
  return type(why) == 'table' and why or redis.error_reply(why)
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
local function fraction(waiter, state)
  return (tonumber(string.sub(redis.sha1hex(waiter), 1, 8), 16) % 341 * 2 + 682 * state + 1) / 2048
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
local able, why = pcall(abandon, KEYS[6] or KEYS[5], ARGV[3], ARGV[2])
local queued = redis.pcall('EXISTS', KEYS[2])
if queued ~= 1 then
  return able and freed or failure(why)
end
local q, leads = fairLock(KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[6] and KEYS[5], ARGV[4], ARGV[5]), false
if freed ~= 1 and ARGV[6] ~= '' and (sitter(q.seats, ARGV[6]) or ARGV[3]) == ARGV[3] then
  leads = first(KEYS[2]) == ARGV[6]
  remove(q, ARGV[6])
end
local left = leads and math.max(redis.call('PTTL', KEYS[1]), 0)
local head = leads and favor(q, q.now + left, 0)
if redis.pcall('EXISTS', KEYS[1]) ~= 1 then
  local given = serve(q, nil, string.match(ARGV[1], '^(.*):'))
  if able and given and given[2] then
    return {freed == 1 and 1 or 0, given[1], q.micros, given[3], given[4]}
  end
elseif head == evict(q) and head then
  alert(q, 0, nil, left)
end
return able and freed or failure(why)
