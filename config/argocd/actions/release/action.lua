-- Releases the first subset, in the order of spec.topology.subsets, that is not wholly released. With type Manual only.
local strategy = obj.spec.updateStrategy
if strategy == nil or strategy.type == "RollingUpdate" then
  return obj
end
strategy.manualUpdate = strategy.manualUpdate or {}
local manual = strategy.manualUpdate
local default = manual.defaultPartition or "100%"
for _, subset in ipairs(obj.spec.topology.subsets or {}) do
  local partition = (manual.partitions or {})[subset.name]
  if partition == nil then
    partition = default
  end
  if partition ~= 0 and partition ~= "0%" then
    manual.partitions = manual.partitions or {}
    manual.partitions[subset.name] = 0
    break
  end
end
return obj
