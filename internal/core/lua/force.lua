-- Frees the lock for any holder, and gives it to the first of the line.
-- KEYS lock line token
-- ARGV 1 public channel 2 the fields of those from whom it is freed, separated by line breaks, or empty for anybody 3 how to publish
-- Returns {1 if it was freed, or 0; us}.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local from = {}
for field in string.gmatch(ARGV[2], '[^\n]+') do
  from[field] = true
end
local fields = redis.call('HKEYS', KEYS[1])
for _, field in ipairs(fields) do
  if ARGV[2] ~= '' and not from[field] or not string.find(field, '.:%-?%d') then -- or it is no lock
    return {0, now}
  end
end
if #fields == 0 then
  return {0, now}
end
--@create
--@lock
redis.call('DEL', KEYS[1])
handOn(now, '', ARGV[1])
return {1, now}
