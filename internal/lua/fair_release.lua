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
-- for fair
-- with tokens for fenced fair

local freed = redis.pcall('HDEL', KEYS[1], ARGV[1]) -- fails if the key is now of another type
local left = redis.pcall('EXISTS', KEYS[1], KEYS[2]) -- while a slot moves, a cluster does not answer whether a key is gone
if ARGV[2] == '0' and left == 0 then
  return freed
end

-- Most often the next waiter is of this client, and so is the one behind it: nobody needs a message. Whatever is less simple
-- is left to the functions.
if ARGV[2] == '0' and left == 1 and freed == 1 and (ARGV[5] == 'PUBLISH' or ARGV[5] == 'SPUBLISH') then
  local waiters = redis.call('LRANGE', KEYS[2], 0, 1)
  local next, behind = waiters[1], waiters[2]
  local client = string.match(ARGV[1], '^(.*:)') or ':'
  local seats, length = client .. '-', #client + 1
  if next and string.sub(next, 1, length) == seats and (not behind or string.sub(behind, 1, length) == seats) then
    local entry = redis.pcall('HGET', KEYS[4], next)
    local number, term = string.match(type(entry) == 'string' and entry or '', '^(%d+)|(%d+)$')
    local alike = not behind or (string.byte(next, -1) == 125) == (string.byte(behind, -1) == 125) -- see foreign
    if number and alike and (tonumber(term) >= FirstTerm or not behind and term ~= '0') then
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

-- functions
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
