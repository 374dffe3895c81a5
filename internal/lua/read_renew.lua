-- Renews a batch of read holds, each only for the holder given with it.
--
-- KEYS[2i-1] lock    hash: mode -> read or write, holder -> count
-- KEYS[2i]   hold    a string that lives as long as this hold
-- ARGV[1]    lease   ms; a longer lease stays as it is
-- ARGV[i+1]  holder  of KEYS[2i-1]
-- returns for each lock 1 if renewed, 0 if that hold is gone
-- keeps rules A.2, A.4, G.1
-- for read

local renewed = {}
for i = 1, #KEYS / 2 do
  local lock, hold = KEYS[2 * i - 1], KEYS[2 * i]
  local held = holds(lock, ARGV[i + 1])
  if type(held) == 'table' then
    return held
  end
  -- A hold whose key is gone is over, even if other holders keep the lock.
  if held == 1 and redis.call('EXISTS', hold) == 0 then
    held = 0
  end
  if held == 1 then
    extend(hold, ARGV[1])
    extend(lock, ARGV[1])
  end
  renewed[i] = held
end
return renewed
