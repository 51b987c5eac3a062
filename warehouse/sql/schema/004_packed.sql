-- Forty rows a benchmark, one for every key, made loading many times slower than
-- reading. The keys of a file are those of every other file of its client, so
-- they are kept once, as a shape; a sample keeps its numbers and its texts as
-- written, in the order of the shape. View raw_value puts them together again.

CREATE TABLE shape_key (
    shape            VARCHAR NOT NULL, -- hash of all rows of the shape
    place            BIGINT NOT NULL,  -- in the lists of a sample, from 1
    ordinal          INTEGER NOT NULL, -- in the file, from 1
    parent           VARCHAR NOT NULL,
    key              VARCHAR NOT NULL,
    pointer          VARCHAR NOT NULL,
    metric           VARCHAR,
    quality          VARCHAR NOT NULL,
    kind             VARCHAR NOT NULL,
    higher_is_better BOOLEAN
);

ALTER TABLE sample ADD COLUMN shape VARCHAR;    -- NULL: nothing is packed
ALTER TABLE sample ADD COLUMN numbers DOUBLE[]; -- may be NaN or infinite: quality says so; NULL: no number
ALTER TABLE sample ADD COLUMN raws VARCHAR;     -- JSON as written, separated by U+001E, which JSON cannot hold

-- What does not fit: long lists, texts with escapes, values kept by hash.
ALTER TABLE raw_value RENAME TO raw_row;
