-- Lengthens the life of receipts of which less than half is left. Returns an error as a table.
local function keep(receipts, ttl, lifetime)
  return ttl < lifetime / 2 and redis.pcall('PEXPIRE', receipts, lifetime)
end

-- Returns how many permits a holder has, or wants.
local function permitsOf(holder)
  local many = string.match(holder, ':%d+:(%d+)$')
  return tonumber(many or 1)
end
