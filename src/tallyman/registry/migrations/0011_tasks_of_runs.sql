-- Tasks of a run are looked up with every one of them that ends.
CREATE INDEX idx_tasks_run ON tasks (run_id) WHERE run_id IS NOT NULL;
