-- The actions for a UnitedDeployment. Those that would change nothing now are disabled.
local strategy = obj.spec.updateStrategy or {}
local manual = strategy.type ~= "RollingUpdate"
local update = (obj.status or {}).updateRevision
local partitions, default = {}, "100%" -- without manualUpdate, or with partitions for another revision, everything is held
if strategy.manualUpdate ~= nil and (strategy.manualUpdate.revision or update) == update then
  partitions = strategy.manualUpdate.partitions or {}
  default = strategy.manualUpdate.defaultPartition or "100%"
end

-- The next subset to release, and whether a subset is not held at any scale.
local held, loose = nil, false
for _, subset in ipairs(obj.spec.topology.subsets or {}) do
  local partition = partitions[subset.name]
  if partition == nil then
    partition = default
  end
  if manual and held == nil and partition ~= 0 and partition ~= "0%" then
    held = subset.name
  end
  loose = loose or partition ~= "100%"
end

local status = obj.status or {}
local key = (status.rollout or {}).approvalKey or ""
local approved = (obj.metadata.annotations or {})["united.dev/approved"]
local paused = obj.spec.paused == true

local actions = {}
actions["release"] = {
  displayName = held and "Release " .. held or "Release",
  iconClass = "fa fa-fw fa-step-forward",
  disabled = not manual or held == nil,
}
actions["hold"] = {
  displayName = "Hold all subsets",
  iconClass = "fa fa-fw fa-hand-paper",
  disabled = not manual or not loose,
}
actions["approve"] = {
  displayName = "Approve the step",
  iconClass = "fa fa-fw fa-check-circle",
  disabled = key == "" or approved == key or status.observedGeneration ~= obj.metadata.generation,
}
actions["pause"] = {displayName = "Pause", iconClass = "fa fa-fw fa-pause-circle", disabled = paused}
actions["resume"] = {displayName = "Resume", iconClass = "fa fa-fw fa-play-circle", disabled = not paused}
actions["restart"] = {displayName = "Restart", iconClass = "fa fa-fw fa-redo"}
return actions
