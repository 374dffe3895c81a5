-- Renews a batch of locks, each only for the holder given with it.
--
-- KEYS[i]   lock    hash: holder -> count
-- ARGV[1]   lease   ms; a longer lease stays as it is
-- ARGV[i+1] holder  of KEYS[i]
-- returns for each of KEYS 1 if renewed, 0 if that holder is gone
-- keeps rules A.2, A.4, A.6
-- for lock, fenced, spin, fair, fenced fair, write, fenced write

local renewed = {}
for i, key in ipairs(KEYS) do
  local held = holds(key, ARGV[i + 1])
  if type(held) == 'table' then
    return held
  end
  if held == 1 then
    extend(key, ARGV[1])
  end
  renewed[i] = held
end
return renewed
