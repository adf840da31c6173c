-- Approves the step that waits for approval. The key is valid for this rollout, revision and step only.
local rollout = (obj.status or {}).rollout or {}
if rollout.approvalKey ~= nil and rollout.approvalKey ~= "" then
  obj.metadata.annotations = obj.metadata.annotations or {}
  obj.metadata.annotations["united.dev/approved"] = rollout.approvalKey
end
return obj
