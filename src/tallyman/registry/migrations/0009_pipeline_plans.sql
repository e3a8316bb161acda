-- Pipeline versions that can be run: the compiled plan, and the text of the files it was made from.
-- Both are NULL for versions that were registered before.

ALTER TABLE pipeline_versions ADD plan text;
ALTER TABLE pipeline_versions ADD files jsonb;
ALTER TABLE pipeline_versions ADD CHECK ((plan IS NULL) = (files IS NULL));
