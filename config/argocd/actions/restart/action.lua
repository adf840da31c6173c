-- Restarts all pods, as kubectl rollout restart does: the annotation makes a new revision, which is rolled out like any
-- other, so partitions, steps and limits apply to it.
local os = require("os")
local now = os.date("!%Y-%m-%dT%XZ")

local function annotate(template)
  template.metadata = template.metadata or {}
  template.metadata.annotations = template.metadata.annotations or {}
  template.metadata.annotations["kubectl.kubernetes.io/restartedAt"] = now
end

for _, workload in pairs(obj.spec.template) do
  local group = workload.spec.leaderWorkerTemplate
  if group == nil then
    annotate(workload.spec.template)
  else
    annotate(group.workerTemplate)
    if group.leaderTemplate ~= nil then
      annotate(group.leaderTemplate)
    end
  end
end
return obj
