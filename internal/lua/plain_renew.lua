-- Keeps the receipts of a batch of holders, each of one plain semaphore. Redis does it even when it is out of memory. The
-- fields of the holders, which follow the lifetime, do not matter.
--
-- KEYS[i] receipts hash: number -> Unix ms; a number that has permits has a time that never comes
-- ARGV[1] lifetime ms
-- returns for each of KEYS 1: receipts are not checked here
-- keeps rules A.6
-- for plain semaphore

local kept, last = {}, nil
for i, key in ipairs(KEYS) do
  if key ~= last then
    extend(key, ARGV[1])
  end
  kept[i], last = 1, key
end
return kept
