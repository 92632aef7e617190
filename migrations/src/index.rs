//! Indexes, named after what they are on.

use sea_orm_migration::prelude::*;

/// A unique index. `store::Error::Unique` names the key by what follows `unique_`.
pub(crate) async fn unique(
    manager: &SchemaManager<'_>,
    table: &'static str,
    columns: &[&'static str],
) -> Result<(), DbErr> {
    manager
        .create_index(of("unique", table, columns).unique().take())
        .await
}

/// An index that only makes reads quick.
pub(crate) async fn index(
    manager: &SchemaManager<'_>,
    table: &'static str,
    columns: &[&'static str],
) -> Result<(), DbErr> {
    manager.create_index(of("index", table, columns)).await
}

fn of(kind: &str, table: &'static str, columns: &[&'static str]) -> IndexCreateStatement {
    let mut index = Index::create();
    index
        .name(format!("{kind}_{table}_{}", columns.join("_")))
        .table(table);
    for &column in columns {
        index.col(column);
    }
    index
}
