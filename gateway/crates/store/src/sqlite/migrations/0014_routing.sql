-- How requests are spread over the deployments of a model.
ALTER TABLE models ADD COLUMN routing TEXT NOT NULL DEFAULT 'weighted';
