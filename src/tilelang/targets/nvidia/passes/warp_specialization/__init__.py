"""Warp specialization: what TMA and wgmma can do, budgets, estimates of schedules, and forms of consumers' loops."""
