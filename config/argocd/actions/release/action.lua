-- Releases the first subset, in the order of spec.topology.subsets, that is not wholly released, to the revision in view: the
-- partitions are for that one alone. With type Manual only.
local strategy = obj.spec.updateStrategy
if strategy == nil or strategy.type == "RollingUpdate" then
  return obj
end
local update = (obj.status or {}).updateRevision
local manual = strategy.manualUpdate or {}
if manual.revision ~= nil and manual.revision ~= update then
  manual = {} -- zones left open by the last rollout do not come along
end
local default = manual.defaultPartition or "100%"
for _, subset in ipairs(obj.spec.topology.subsets or {}) do
  local partition = (manual.partitions or {})[subset.name]
  if partition == nil then
    partition = default
  end
  if partition ~= 0 and partition ~= "0%" then
    manual.partitions = manual.partitions or {}
    manual.partitions[subset.name] = 0
    manual.revision = update
    strategy.manualUpdate = manual
    break
  end
end
return obj
