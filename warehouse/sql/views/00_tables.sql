-- tables: what they hold, for cvs sql --schema; no view.
-- grain: none
-- reads: nothing
-- unit:  none
-- Their columns are explained by the views over them and by the files that create
-- them, in sql/schema.
COMMENT ON TABLE metric_def IS 'Metrics that are known: label, unit, direction, tier, whether gated; filled by this version of cvs';
COMMENT ON TABLE run IS 'What was asked for and happened, as run.json says; one row per run';
COMMENT ON TABLE input_file IS 'Configuration, threshold and cluster file of each run, by hash; one row per run and kind';
COMMENT ON TABLE image_digest IS 'Digest of the container image on each host; one row per run and host';
COMMENT ON TABLE expected_cell IS 'Cells of each run, planned ones in their order and found ones; one row per run and cell';
COMMENT ON TABLE expected_task IS 'Checks that were planned beside the sweep; one row per run, kind and task';
COMMENT ON TABLE threshold IS 'Specs of the threshold file, with file and line; one row per run, target and metric';
COMMENT ON TABLE stage IS 'What happened, step by step, as stages.jsonl says; one row per run and step';
COMMENT ON TABLE artifact IS 'Raw files by hash, with the format they were recognised as; one row per run and file';
COMMENT ON TABLE attempt IS 'How each cell was measured: command lines, times, exit status; one row per run, cell, repeat and host';
COMMENT ON TABLE sample IS 'Benchmarks found in raw files, with what they say of themselves and their packed values; one row per benchmark';
COMMENT ON TABLE raw_row IS 'Values of samples that are not packed; view raw_value puts all together';
COMMENT ON TABLE problem IS 'What was wrong with results or contradicts the plan; one row per finding';
COMMENT ON TABLE measurement IS 'What view measured says, kept for questions about many runs; filled by cvs load or, after a bulk load, by the next cvs command that reads the file';
COMMENT ON TABLE cell_result IS 'Per cell what is not a metric of its own: hosts, success rate, lengths; filled with measurement';
COMMENT ON TABLE run_origin IS 'Accelerator really seen, and where a result was published; one row per run';
COMMENT ON TABLE baseline IS 'Runs that were pinned with cvs baseline pin; one row per pin';
COMMENT ON TABLE change_point IS 'Level shifts found in history, with method and version; view change_points reads it';
COMMENT ON TABLE check_result IS 'What the checks beside the sweep left; one row per check (empty metric) and one per value';
COMMENT ON TABLE shape_key IS 'Keys that result files have in common, kept once; view raw_value puts them and the samples together';
COMMENT ON TABLE gpu_stat IS 'GPU telemetry of a cell, per GPU and of all; one row per cell, repeat, host and GPU';
COMMENT ON TABLE gpu_point IS 'GPU telemetry over time; one row per cell, repeat, host and reading';
COMMENT ON TABLE model_load IS 'How long the model took to load, from the server''s log; one row per server session and host';
COMMENT ON TABLE kernel_event IS 'Lines of kernel logs that matter; one row per kind of line and host';
COMMENT ON TABLE needle IS 'Needle-in-a-haystack cells; one row per task, length and depth';
COMMENT ON TABLE waiver IS 'Waivers in the folder of a run; one row per waiver';
COMMENT ON TABLE signoff IS 'Entries of the sign-off log; one row per run and entry';
COMMENT ON TABLE signoff_waiver IS 'Waivers that a decision stands on; one row per entry and waiver';
COMMENT ON TABLE signoff_item IS 'Short texts of decisions (condition, confirmed) and, with seq 0, of the policy';
COMMENT ON TABLE signoff_finding IS 'What is wrong with log, signer or evidence of a decision';
COMMENT ON TABLE signoff_rule IS 'The policy that the decisions of a run are held against; one row per run';
COMMENT ON TABLE unmeasured IS 'Runs whose measurements are computed by the next cvs command that reads the file';
