-- Announces how many permits are free, if any is. Redisson's listeners fail at any other number.
local function announceValue(publish, channel, value)
  if value > 0 then
    announce(publish, channel, string.format('%.0f', math.min(value, 2147483647)))
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
