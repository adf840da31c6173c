-- Freezes the rollout. Scaling and repair continue.
obj.spec.paused = true
return obj
