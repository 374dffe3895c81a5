-- Returns the number that a key has, or nil if there is no such key. If the key has something else, the result is nil and an
-- error that has the beginning of it. A key of another type ends the script. Redis calculates with 19 digits; 18 are enough.
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
