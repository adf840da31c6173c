-- Holds all subsets, at any scale: updated replicas stay updated, and no others are updated. With type Manual only.
local strategy = obj.spec.updateStrategy or {}
if strategy.type ~= "RollingUpdate" then
  strategy.manualUpdate = {defaultPartition = "100%"}
  obj.spec.updateStrategy = strategy
end
return obj
