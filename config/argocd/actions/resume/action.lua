-- Continues a paused rollout.
if obj.spec.paused then
  obj.spec.paused = false
end
return obj
