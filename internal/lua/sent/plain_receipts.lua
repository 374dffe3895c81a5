-- 936515accb9f71b73f671aafd112e92c49221016 plain_receipts
-- Generated from ../plain_receipts.lua by go generate: DO NOT EDIT. This header is not sent.
--
-- Returns receipts of permits that their client does not know. It only reads: the client then gives the permits back, each number
-- once.
--
-- KEYS[1] receipts hash: number -> Unix ms; a number that has permits has a time that never comes
-- ARGV[1] alive    the numbers, with spaces between them, that may have permits as far as the client knows
-- ARGV[3] place    any number: of many receipts, it selects which are looked at
-- returns 32 numbers: each number of a receipt, and how many permits it has; the rest are zeros
-- keeps rules V.1
-- for plain semaphore

local function isOut(receipt)
  return receipt and string.sub(receipt, 1, 15) == '922337203685477'
end
local alive, all, found = {}, {}, {}
for number in string.gmatch(ARGV[1], '%d+') do
  alive[number] = true
end
if redis.call('HLEN', KEYS[1]) <= 1024 then
  all = redis.call('HGETALL', KEYS[1])
else
  local page = redis.pcall('HSCAN', KEYS[1], string.format('%.0f', ARGV[3] * 2654435761 % 4294967296), 'COUNT', 300)
  all = page[2] or {}
end
for i = 1, #all, 2 do
  if #found < 32 and not alive[all[i]] and isOut(all[i + 1]) then
    found[#found + 1] = tonumber(all[i])
    found[#found + 1] = tonumber(string.match(all[i + 1], '%.(%d+)$') or 1)
  end
end
while #found < 32 do
  found[#found + 1] = 0
end
return found
