-- Returns how many permits a holder has, or wants.
local function permitsOf(holder)
  local many = string.match(holder, ':%d+:(%d+)$')
  return tonumber(many or 1)
end
