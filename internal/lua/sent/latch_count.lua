-- 686e05a4a209b0f5b2951b6aa32c61f01ad9c351 latch_count
-- Generated from ../latch_count.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Returns the count of a latch.
--
-- KEYS[1] latch  the count; no key means that the latch is open
-- returns the count; 0 when there is no key
-- keeps rules 2
-- for latches

local function counter(key)
  local value = redis.call('GET', key)
  if not value then
    return nil
  end
  if #value > 18 or not string.match(value, '^%-?%d+$') then
    local shown = string.gsub(string.sub(value, 1, 64), '[%c\127-\255]', '?')
    return nil, redis.error_reply('ERR the value is not a count: "' .. shown .. '"')
  end
  return tonumber(value)
end
local count, wrong = counter(KEYS[1])
return wrong or count or 0
