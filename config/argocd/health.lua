-- The health of a UnitedDeployment for Argo CD. It follows the conditions Stalled and Ready, as kstatus does, and so Helm 4
-- and Flux; in addition, it shows a UnitedDeployment that waits for people as Suspended.
local health = {status = "Progressing", message = "waiting for the controller to observe the latest change"}

if obj.metadata.deletionTimestamp ~= nil then
  health.message = "being deleted"
  return health
end

local status = obj.status or {}
if status.observedGeneration ~= obj.metadata.generation then
  return health
end

local conditions = {}
for _, condition in ipairs(status.conditions or {}) do
  conditions[condition.type] = condition
end
local stalled, ready = conditions["Stalled"], conditions["Ready"]

if stalled ~= nil and stalled.status == "True" then
  health.status = "Degraded"
  health.message = stalled.message
  return health
end
if ready == nil then
  return health
end

health.message = ready.message
local waits = {RolloutHeld = true, AwaitingApproval = true, Paused = true}
-- This reason replaces RolloutComplete and RolloutHeld.
waits.ReplicasNotHonored = status.updatedReplicas ~= status.replicas
if ready.status == "True" then
  health.status = waits[ready.reason] and "Suspended" or "Healthy"
end
return health
