-- glob_pattern: a pattern of ours as GLOB takes it.
-- grain: one value
-- reads: nothing
-- unit:  none
-- In our patterns only * and ? are special; GLOB has [ and \ too.
CREATE OR REPLACE MACRO glob_pattern(pattern) AS replace(replace(pattern, '\', '\\'), '[', '[[]');
COMMENT ON MACRO glob_pattern IS 'A pattern with * and ? for GLOB. pattern: text';
