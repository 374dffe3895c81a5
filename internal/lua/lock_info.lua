-- Returns who holds a lock and who waits for it, at one moment. It only reads, and no more than 100 holders and 100 waiters.
--
-- KEYS[1] lock     hash: holder -> count; a read-write lock also has a mode
-- KEYS[2] waiters  zset: waiter -> Unix us of its arrival, or the list of a fair lock's waiters, the first one first
-- KEYS[3] token    the latest token; only if the kind has tokens
-- returns {PTTL of the lock, Unix us, the token or an empty string, how many holders there are, holder, count, role, ms of its lease,
-- ..., how many waiters there are, waiter, Unix us of its arrival or 0, ...}. The holders, and the waiters, are each in a list of
-- their own. A role is read, write or an empty string. The lease of a reader that has died is -2
-- keeps rules P.9, Q.2, T.3
-- for every kind of lock

local most, time = 100, redis.call('TIME')
local ttl, mode = redis.call('PTTL', KEYS[1]), redis.call('HGET', KEYS[1], ModeField)
local total = redis.call('HLEN', KEYS[1]) - (mode and 1 or 0)
local prefix = string.find(KEYS[1], '{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'

local holders, cursor = {}, '0'
repeat
  local page = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', most + 1)
  cursor = page[1]
  for i = 1, #page[2], 2 do
    local holder, count = page[2][i], page[2][i + 1]
    if holder ~= ModeField and #holders < 4 * most then
      local role, lease = mode and WriteMode or '', ttl
      if mode and string.sub(holder, -6) ~= WriteSuffix then
        role, lease = ReadMode, -2
        for entry = 1, math.min(tonumber(count) or 0, most) do -- Redisson has a key for each acquisition
          local left = redis.pcall('PTTL', prefix .. ':' .. holder .. HoldSuffix .. entry)
          -- While a slot moves, a cluster does not answer for a key that is gone.
          lease = math.max(lease, type(left) == 'table' and ttl or left)
        end
      end
      for _, part in ipairs({holder, count, role, lease}) do
        table.insert(holders, part)
      end
    end
  end
until cursor == '0' or #holders >= 4 * most

local waiters, waiting, kind = {}, 0, redis.call('TYPE', KEYS[2]).ok
if kind == 'list' then
  waiting = redis.call('LLEN', KEYS[2])
  local ending = string.find(KEYS[1], '^{[^{]*}$') and BracedEnding or '' -- the locks x and {x} have one queue
  for _, waiter in ipairs(redis.call('LRANGE', KEYS[2], 0, most - 1)) do
    local seat = string.match(waiter, ':%-%d+(.*)$')
    if seat and seat ~= ending then
      waiting = waiting - 1 -- it waits for the other one
    else
      table.insert(waiters, waiter)
      table.insert(waiters, '0')
    end
  end
elseif kind == 'zset' then
  waiting = redis.call('ZCOUNT', KEYS[2], '-inf', WaitersEnd) -- the members beyond are marks
  local page = redis.call('ZRANGE', KEYS[2], 0, most - 1, 'WITHSCORES')
  for i = 1, math.min(#page, 2 * waiting), 2 do
    table.insert(waiters, page[i])
    table.insert(waiters, string.format('%.0f', tonumber(page[i + 1])))
  end
end
local token = KEYS[3] and redis.call('GET', KEYS[3]) or ''
return {ttl, time[1] * 1000000 + time[2], token, total, holders, waiting, waiters}
