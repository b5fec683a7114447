"""The plugins that come with hooksdk. They use its public modules only, so they are examples as well."""
